package keyfuncs

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest returns the key by which this package counts a secret: the first 128 bits of its SHA-256,
// as 32 hexadecimal digits. The backend never sees the secret itself. Common tools compute the same
// key:
//
//	printf %s "$SECRET" | sha256sum | cut -c1-32
//
// A digest hides secrets that cannot be guessed, such as random tokens. A guessable secret can be
// found from its digest by trying.
func Digest(secret string) string {
	sum := sum256(secret)
	var text [32]byte
	hex.Encode(text[:], sum[:16])
	return string(text[:])
}

// maxVerbatim is the maximal length in bytes of a client's text that is used unchanged as a key.
const maxVerbatim = 64

// longPrefix begins the key of a longer text. With the 64 digits after it, the key has more than
// maxVerbatim bytes, so it never equals a text that is used unchanged.
const longPrefix = "sha256:"

// bounded returns s, or its digest if s has more than maxVerbatim bytes. Different
// texts have different results.
func bounded(s string) string {
	if len(s) <= maxVerbatim {
		return s
	}
	sum := sum256(s)
	var text [len(longPrefix) + 2*sha256.Size]byte
	copy(text[:], longPrefix)
	hex.Encode(text[len(longPrefix):], sum[:])
	return string(text[:])
}

// sum256 hashes s without copying all of it: s may be as long as a request.
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
