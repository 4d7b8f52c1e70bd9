// Package shed protects a service from all of its clients together, from a slow dependency
// and from its own success: it admits as many requests at once as the service can answer
// in time, finds that number by itself, and sheds the least important requests first.
//
// A rate limit, as of package nethttp, protects from one client. A shedder looks at the
// service instead: at the requests in flight and at how long they take.
//
//	const (
//		critical = iota // indexes of the classes, the most important first
//		other
//	)
//
//	shedder := shed.MustNew(shed.Options[*http.Request]{
//		Classes: []shed.Class{{Name: "critical"}, {Name: "other"}},
//		Classify: func(r *http.Request) int {
//			if r.Method == http.MethodPost {
//				return critical
//			}
//			return other
//		},
//	})
//	handler := shed.Handler(shedder, mux)
//
// A request that is shed is answered 503 with the problem type temporary-reduced-capacity
// and a Retry-After of 1 to 4 seconds at random, so that clients do not all come back at
// once. It is up to 16 seconds while several requests are shed for each that is admitted. Put a
// shedder outside of rate limiters and authentication, so that a shed request costs nothing.
package shed
