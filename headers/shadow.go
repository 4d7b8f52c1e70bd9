package headers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/weir-go/weir/core"
)

// writeShadows adds to h the names of the shadow rules that would have denied o, each as a string
// of RFC 9651.
func (w *Writer) writeShadows(h http.Header, o *core.Outcome) {
	var text []byte
	for i := range o.Len() {
		if d := o.At(i); d.Mode() == core.Shadow && !d.Allowed && d.Source.Counted() {
			text = appendString(separate(text, 0), d.Rule())
		}
	}
	if len(text) > 0 {
		h[w.shadowField] = append(h[w.shadowField], string(text))
	}
}

// validateShadowField returns an error if name is not a field name, or if denials have that field
// anyway.
func validateShadowField(name string) error {
	if name == "" {
		return nil
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return fmt.Errorf("headers: shadow field: %.30q is not the name of a field", name)
		}
	}
	if key := http.CanonicalHeaderKey(name); key == "Retry-After" ||
		strings.Contains(key, "Ratelimit") {
		return errors.New(
			"headers: shadow field: must not be a field that clients read limits from")
	}
	return nil
}
