package gate

// Made returns a limiter, or the error of its gate.
func Made[L any](limiter *L, err error) (*L, error) {
	if err != nil {
		return nil, err
	}
	return limiter, nil
}

// Must returns a limiter. It panics if err is not nil.
func Must[L any](limiter L, err error) L {
	if err != nil {
		panic(err)
	}
	return limiter
}
