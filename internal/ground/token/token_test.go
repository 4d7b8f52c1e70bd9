package token_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/ground/token"
)

// What RFC 9110 calls delimiters, and all that is not visible ASCII, ends a token.
func TestEachCharacterIsOneOfATokenOrNot(t *testing.T) {
	for c := range 256 {
		one := string([]byte{byte(c)})
		want := c > ' ' && c < 0x7f && !strings.Contains(`"(),/:;<=>?@[\]{}`, one)
		if token.Is(one) != want || token.Is("a"+one+"b") != want || token.Is([]byte(one)) != want {
			t.Errorf("%q: %v, want %v", one, token.Is(one), want)
		}
	}
	if token.Is("") {
		t.Error("a token has a character at least (RFC 9110, section 5.6.2)")
	}
}
