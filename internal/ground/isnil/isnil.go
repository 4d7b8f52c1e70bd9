// Package isnil finds nil pointers in interfaces.
package isnil

import "reflect"

// Of reports whether v is nil or a nil pointer.
func Of(v any) bool {
	value := reflect.ValueOf(v)
	return !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil()
}
