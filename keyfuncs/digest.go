package keyfuncs

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest returns the key under which this package's functions count a secret:
// the first 128 bits of its SHA-256, as 32 hexadecimal digits. So secrets do
// not travel to the backend, and a key can be found again with common tools:
//
//	printf %s "$SECRET" | sha256sum | cut -c1-32
//
// It hides what cannot be guessed, such as random tokens; whoever sees the
// digest of a guessable secret can find it by trying.
func Digest(secret string) string {
	sum := sum256(secret)
	var text [32]byte
	hex.Encode(text[:], sum[:16])
	return string(text[:])
}

// maxPlain is how long a client's text may be to be a key as it stands.
const maxPlain = 64

// longPrefix marks the digest that stands for a longer text. With 64 digits
// after it, it is too long to be taken for a text that stands for itself.
const longPrefix = "sha256:"

// bounded returns s, or its digest if s is longer than maxPlain. Different
// texts have different results.
func bounded(s string) string {
	if len(s) <= maxPlain {
		return s
	}
	sum := sum256(s)
	var text [len(longPrefix) + 2*sha256.Size]byte
	copy(text[:], longPrefix)
	hex.Encode(text[len(longPrefix):], sum[:])
	return string(text[:])
}

// sum256 hashes s without a copy as long as s, which may be all that a client
// is allowed to send.
func sum256(s string) (sum [sha256.Size]byte) {
	var block [1024]byte
	if len(s) <= len(block) {
		return sha256.Sum256(block[:copy(block[:], s)])
	}
	hash := sha256.New()
	buf := make([]byte, len(block))
	for s != "" {
		n := copy(buf, s)
		hash.Write(buf[:n])
		s = s[n:]
	}
	hash.Sum(sum[:0])
	return sum
}
