package grpcmw

// SetMaxRefused changes how many calls Tap refuses whose deadlines are ahead, until restore is called.
func SetMaxRefused(n int64) (restore func()) {
	before := maxRefused
	maxRefused = n
	return func() { maxRefused = before }
}
