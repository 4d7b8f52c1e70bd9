package backends

// Salter is a Backend whose states several processes may share. Limiters digest the values of
// distinct limits before they charge them: 64 bits of salt, scope, key and value. All processes
// that share states need one salt.
//
// A client that knows salt, scope and key can look for values with equal digests, which count as
// one value. So a salt is best a secret, such as the Prefix of package redisbackend can have. For a
// backend that is [InProcess], a limiter needs no salt: it has a secret of its process.
type Salter interface {
	Backend

	// Salt returns the salt. It is always the same.
	Salt() string
}

// Salt returns the salt of the first [Salter] among b and the backends that it wraps, or "".
func Salt(b Backend) string {
	if s, ok := As[Salter](b); ok {
		return s.Salt()
	}
	return ""
}
