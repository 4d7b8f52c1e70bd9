package directory

import (
	"encoding/base64"
	"testing"
)

func encode(key []byte) string { return base64.RawURLEncoding.EncodeToString(key) }

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
