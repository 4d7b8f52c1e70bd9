package gate

import (
	"net/http"
	"reflect"
)

// again reports whether g has already charged the request of r for the answer with header h: a
// router has sent it through the same limiter twice. A request with an end is known by its context.
// Others are charged each time: their fields in h would not tell a request that was charged from
// one that was denied, or from another one of the same answer.
//
// The answer must be the same: a handler may serve several requests of a batch, with answers of
// their own, in the context of one.
func (g *Gate[R]) again(r *http.Request, h http.Header) bool {
	if !g.newest.Load().ends {
		return false
	}
	for e := endOf(r.Context()); e != nil; e = e.outer {
		if e.gate == any(g) && reflect.ValueOf(e.answer).Pointer() == reflect.ValueOf(h).Pointer() {
			return true
		}
	}
	return false
}
