package fibermw

import (
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/internal/http/watch"
	"github.com/weir-go/weir/shed"
)

// Shed returns middleware that passes only requests that s admits to the next handler, and answers
// the others with status 503. All middleware of one shedder counts together. It goes outside
// limiters and authentication. If [shed.Options].Route is nil, the route of a request is the path
// of the route that answered it. A request whose answer is a stream, or whose connection is taken
// over, is in flight until its handler returns. Shed panics if s is nil or was not made by
// [shed.New].
func Shed(s *shed.Shedder[fiber.Ctx]) fiber.Handler {
	gate := shedgate.New(s, shedgate.Config[fiber.Ctx]{
		Route:    pattern,
		Answered: answered,
		Own:      own,
		Sending:  sending{},
	})
	return func(c fiber.Ctx) error {
		prepare(c)
		x := begin(c)
		err := x.returned(gate.Serve(x, x.request(), c, passOn))
		x.store() // the fields of a denial whose status Denied leaves to the ErrorHandler
		x.end()
		return err
	}
}

// ownKey is the key of the status in the user values of a request that a limiter of weir answered.
type ownKey struct{}

// marks has the statuses of limiters: a mark allocates nothing.
var marks = map[int]any{
	watch.AnyStatus: watch.AnyStatus, http.StatusTooManyRequests: http.StatusTooManyRequests,
	http.StatusServiceUnavailable: http.StatusServiceUnavailable,
}

func own(c fiber.Ctx) int {
	status, _ := c.RequestCtx().UserValue(ownKey{}).(int)
	return status
}

// passOn calls the next handler of a shedder.
func passOn(_ http.ResponseWriter, c fiber.Ctx) error {
	if x, ok := c.RequestCtx().UserValue(exchangeKey{}).(*exchange); ok {
		x.passed = true
		x.decided()
	}
	return c.Next()
}
