package watch

import (
	"bufio"
	"net"
	"net/http"
)

// Unwrap is for http.ResponseController, which finds deadlines and full duplex there.
//
// A writer of a middleware outside may have no method but Unwrap. Then w has no Flush and no Hijack, and
// http.ResponseController would look for them behind w, where nobody notes them. So what is behind w has
// those of w, if there are any.
func (w *Writer) Unwrap() http.ResponseWriter {
	outer := abilitiesOf(w.inner)
	var inner abilities
	for at := w.inner; ; {
		unwraps, ok := at.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		at = unwraps.Unwrap()
		inner |= abilitiesOf(at)
	}
	switch inner &^ outer & (flushes | hijacks) {
	case flushes:
		return &behindF{behind{w}}
	case hijacks:
		return &behindH{behind{w}}
	case flushes | hijacks:
		return &behindFH{behindF{behind{w}}}
	}
	return w.inner
}

// behind is what is behind a Writer, as Unwrap returns it.
type behind struct{ *Writer }

func (b behind) Unwrap() http.ResponseWriter { return b.inner }

type (
	behindF  struct{ behind }
	behindH  struct{ behind }
	behindFH struct{ behindF }
)

func (b *behindF) Flush()                                        { _ = b.flush() }
func (b *behindF) FlushError() error                             { return b.flush() }
func (b *behindH) Hijack() (net.Conn, *bufio.ReadWriter, error)  { return b.hijack() }
func (b *behindFH) Hijack() (net.Conn, *bufio.ReadWriter, error) { return b.hijack() }
