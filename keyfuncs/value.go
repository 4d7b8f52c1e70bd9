package keyfuncs

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/weir-go/weir/core"
)

// Value returns the key function of a value that read finds in a request of any
// type, such as what earlier middleware left in a framework's own context: a
// string, an integer or a [fmt.Stringer]. If it is nil or has no text, the key is
// core.ErrAbsent; a value of another type is an error. A text of more than 64
// bytes is represented as [Header] says. If read is nil, so is the result.
//
// To have another key costs a client what it costs to have another value there.
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

// textOf returns the text of a value, "" if there is none.
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
