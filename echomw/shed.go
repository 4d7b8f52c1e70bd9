package echomw

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/shed"
)

// Shed returns middleware that passes only requests that s admits to the next handler, and answers
// the others with status 503. All middleware of one shedder counts together. It goes outside
// limiters and authentication. If [shed.Options].Route is nil, the route of a request is its Path.
// Shed panics if s is nil or was not made by [shed.New].
//
// Call [shed.Stream] with c.Response().Writer: in older releases of echo 4, c.Response() has no
// method Unwrap.
func Shed(s *shed.Shedder[echo.Context]) echo.MiddlewareFunc {
	gate := shedgate.New(s, shedgate.Config[echo.Context]{
		Route:       echo.Context.Path,
		Committed:   func(c echo.Context) bool { return c.Response().Committed },
		Answered:    answered,
		WithRequest: withRequest,
		Answer:      func(c echo.Context) http.ResponseWriter { return c.Response() },
	})
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		proceed := func(w http.ResponseWriter, c echo.Context) error {
			response := c.Response() // next may replace it
			own := response.Writer
			response.Writer = w
			defer func() { response.Writer = own }()
			return next(c)
		}
		return func(c echo.Context) error {
			return gate.Serve(c.Response().Writer, c.Request(), c, proceed)
		}
	}
}
