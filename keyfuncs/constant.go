package keyfuncs

// Constant returns the key function that puts all requests under one key. For a
// limit that everybody shares:
//
//	Key: keyfuncs.Constant[*http.Request]("everybody")
//
// No client can have another key, and any client can use up the limit for all.
func Constant[R any](key string) func(R) (string, error) {
	return func(R) (string, error) { return key, nil }
}
