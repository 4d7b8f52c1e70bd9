// Package directory holds the public keys of signers: keys that the program gives, and keys of
// directories, which it fetches.
package directory

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// maxKeys is the most keys of a directory.
const maxKeys = 64

// Key is a public key, and when it is good.
type Key struct {
	Public    ed25519.PublicKey
	NotBefore time.Time // zero: always
	NotAfter  time.Time // zero: for ever
}

// IsGood reports whether signatures by the key are good at an instant.
func (k *Key) IsGood(now time.Time) bool {
	return (k.NotBefore.IsZero() || !now.Before(k.NotBefore)) && (k.NotAfter.IsZero() || now.Before(k.NotAfter))
}

// Keys are keys by their thumbprint.
type Keys map[string]Key

// Thumbprint returns the JWK thumbprint of a key by SHA-256, in base64url (RFC 7638, section 3; RFC
// 8037, appendix A.3).
func Thumbprint(key ed25519.PublicKey) string {
	const begin, end = `{"crv":"Ed25519","kty":"OKP","x":"`, `"}`
	b := base64.RawURLEncoding.AppendEncode([]byte(begin), key)
	sum := sha256.Sum256(append(b, end...))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// The thumbprint of the key of RFC 9421, appendix B.1.4, whose private half is in the RFC.
const exampleKey = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"

// Set is a JSON Web Key Set (RFC 7517, section 5).
type Set struct {
	Keys []json.RawMessage `json:"keys"`
}

// jwk is a JSON Web Key (RFC 7517, RFC 8037). nbf and exp are of the directory's draft.
type jwk struct {
	KeyType   string  `json:"kty"`
	Curve     string  `json:"crv"`
	X         string  `json:"x"`
	Use       string  `json:"use"`
	NotBefore float64 `json:"nbf"` // in seconds of Unix time
	NotAfter  float64 `json:"exp"`
	Private   any     `json:"d"`
}

// Why a key of a set is not used.
var (
	errOtherKey = errors.New("it is no Ed25519 key for signatures")
	errPrivate  = errors.New("it has its private half, which must stay secret")
	errExample  = errors.New("it is the example of RFC 9421, whose private half everyone knows")
)

// Parse returns the keys of a JSON Web Key Set by which this package verifies, and leaves out all
// others. exposed says which were left out since everyone may know their private half, with the
// position of each. The error is for a text that is no such set, or has too many keys.
func Parse(text []byte) (keys Keys, exposed []error, err error) {
	var set Set
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if set.Keys == nil {
		return nil, nil, errors.New(`not a JSON Web Key Set: it has no member "keys"`)
	}
	if len(set.Keys) > maxKeys {
		return nil, nil, fmt.Errorf("more than %d keys", maxKeys)
	}
	keys = make(Keys, len(set.Keys))
	for i, raw := range set.Keys {
		key, err := parseKey(raw)
		if errors.Is(err, errOtherKey) {
			continue
		}
		thumbprint := ""
		if err == nil {
			if thumbprint = Thumbprint(key.Public); thumbprint == exampleKey {
				err = errExample
			}
		}
		if err != nil {
			exposed = append(exposed, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		keys[thumbprint] = key
	}
	return keys, exposed, nil
}

func parseKey(text json.RawMessage) (Key, error) {
	var k jwk
	if err := json.Unmarshal(text, &k); err != nil {
		return Key{}, errOtherKey
	}
	if k.KeyType != "OKP" || k.Curve != "Ed25519" || k.Use != "" && k.Use != "sig" {
		return Key{}, errOtherKey
	}
	if k.Private != nil {
		return Key{}, errPrivate
	}
	public, err := base64.RawURLEncoding.DecodeString(k.X)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return Key{}, errOtherKey
	}
	return Key{public, instant(k.NotBefore), instant(k.NotAfter)}, nil
}

// instant returns an instant of Unix time, or the zero time for 0.
func instant(seconds float64) time.Time {
	const most = 1 << 40 // seconds; beyond them a conversion could overflow
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(max(-most, min(seconds, most))), 0)
}
