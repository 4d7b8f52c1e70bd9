package keyfuncs

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/weir-go/weir/core"
)

// Value returns the key function of a value that read finds in a request of any type, such as a
// value that earlier middleware stored in a framework's own context. The value is a string, an
// integer or a [fmt.Stringer]; any other type is an error. If it is nil or its text is empty, the
// key is core.ErrAbsent. A text of more than 64 bytes is represented by its digest, as in [Header].
// If read is nil, the result is nil.
//
// Another key costs a client as much as another value.
func Value[R any](read func(R) any) func(R) (string, error) {
	if read == nil {
		return nil
	}
	return func(r R) (string, error) {
		text, err := textOf(read(r))
		if err != nil {
			return "", err
		}
		if text == "" {
			return "", core.ErrAbsent
		}
		return bounded(text), nil
	}
}

// textOf returns the text of a value, or "" if it is nil.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case fmt.Stringer:
		return v.String(), nil
	}
	switch v := reflect.ValueOf(value); {
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	}
	return "", errNoText
}
