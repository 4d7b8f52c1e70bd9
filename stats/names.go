package stats

import "strings"

// label returns name as a label of metrics, in valid UTF-8: exporters reject everything otherwise.
// It is applied before names are compared, so two names that become equal share their counters.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// named returns the value of a name, and creates it if needed.
func named[V any](values map[string]V, name string, make func() V) V {
	v, ok := values[name]
	if !ok {
		v = make()
		values[name] = v
	}
	return v
}

// watch sets the value of a name, or removes the name if unset.
func watch[V any](values map[string]V, name string, v V, unset bool) {
	if name = label(name); unset {
		delete(values, name)
		return
	}
	values[name] = v
}
