package headers

import "crypto/sha256"

// Digest is an [Options].PartitionKey: the first 8 bytes of the SHA-256 of key.
// It tells keys apart and gives none away, but somebody who can guess a key,
// such as an address, can check the guess.
func Digest(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:8]
}
