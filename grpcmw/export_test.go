package grpcmw

// SetMaxRefused changes how many calls Tap refuses whose deadlines are ahead, until restore is called.
func SetMaxRefused(n int64) (restore func()) {
	before := maxRefused
	maxRefused = n
	return func() { maxRefused = before }
}

// SetMaxLater changes how many denied unary calls Tap leaves to interceptors, until restore is
// called.
func SetMaxLater(n int64) (restore func()) {
	before := maxLater
	maxLater = n
	return func() { maxLater = before }
}
