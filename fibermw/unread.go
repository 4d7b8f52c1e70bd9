package fibermw

import (
	"io"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// unread is the body of a request of an app with StreamRequestBody, as package gate reads it before
// a denial. fasthttp takes what a handler leaves of such a body for the next request on the
// connection.
type unread struct {
	request *fasthttp.Request
	ended   bool // all of the body was read
}

// Read implements io.Reader. A handler that has read the whole body has put it into the request.
func (u *unread) Read(p []byte) (int, error) {
	if u.ended || !u.request.IsBodyStream() {
		return 0, io.EOF
	}
	n, err := u.request.BodyStream().Read(p)
	u.ended = err == io.EOF
	return n, err
}

// Close implements io.Closer.
func (u *unread) Close() error { return nil }

// finish has the server close the connection after a request that was not passed on, if a part of
// its body is still to come.
func (u *unread) finish(c fiber.Ctx) {
	if u.request != nil && !u.ended && u.request.IsBodyStream() {
		c.Response().Header.SetConnectionClose()
	}
}
