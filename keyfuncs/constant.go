package keyfuncs

// Constant returns the key function that counts all requests under one key. It is for a limit that
// all clients share:
//
//	Key: keyfuncs.Constant[*http.Request]("everybody")
//
// No client can get another key, and any client can use up the limit for all.
func Constant[R any](key string) func(R) (string, error) {
	return func(R) (string, error) { return key, nil }
}
