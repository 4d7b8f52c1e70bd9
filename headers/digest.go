package headers

import "crypto/sha256"

// Digest returns the first 8 bytes of the SHA-256 of key, for [Options].PartitionKey. Clients can
// tell partitions apart by it but cannot read the key from it. A client that guesses a key, such as
// an address, can check the guess.
func Digest(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:8]
}
