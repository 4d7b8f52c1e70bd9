// Package watch puts writers around those of net/http that note what is written. The
// limiters of nethttp learn the status and the length of an answer from them, and package
// shed the instant at which it becomes a stream, and for how long a handler waits for its client.
package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Around returns w with a writer around it that notes what is written. The writer
// implements an optional interface only if w does, since handlers choose by that what to
// do. Its other abilities are behind Unwrap.
//
// There are 64 combinations, which would add 190 kB to every program. Around knows those
// of net/http (HTTP/1: all but Pusher; HTTP/2: Flusher, Pusher, StringWriter,
// CloseNotifier), httptest, http.TimeoutHandler, gin, the usual wrappers of middleware,
// and each interface alone. For any other combination it takes the first one in shapes that w
// has wholly. That keeps Flusher and Hijacker, without which handlers fail. What it may
// lose only makes copying slower (ReaderFrom, StringWriter), may be refused at any time
// (Pusher), or has long been replaced by the context (CloseNotifier).
//
// listener, if it is not nil, is told of the first Flush and of a Hijack that succeeds, and of the time that
// writing takes.
func Around(w http.ResponseWriter, listener Listener) (http.ResponseWriter, *Writer) {
	has := abilitiesOf(w)
	for i := range shapes {
		if s := &shapes[i]; s.needs&^has == 0 {
			around := s.make()
			watched := around.self()
			watched.ResponseWriter, watched.listener = w, listener
			return around, watched
		}
	}
	panic("unreachable: the last shape needs nothing")
}

// abilities is a set of optional interfaces.
type abilities uint8

const (
	flushes       abilities = 1 << iota // http.Flusher
	hijacks                             // http.Hijacker
	reads                               // io.ReaderFrom
	pushes                              // http.Pusher
	writesStrings                       // io.StringWriter
	notifiesClose                       // http.CloseNotifier
)

func abilitiesOf(w http.ResponseWriter) (has abilities) {
	if _, ok := w.(http.Flusher); ok {
		has |= flushes
	}
	if _, ok := w.(http.Hijacker); ok {
		has |= hijacks
	}
	if _, ok := w.(io.ReaderFrom); ok {
		has |= reads
	}
	if _, ok := w.(http.Pusher); ok {
		has |= pushes
	}
	if _, ok := w.(io.StringWriter); ok {
		has |= writesStrings
	}
	//lint:ignore SA1019 gin's Context.Stream asks for it
	if _, ok := w.(http.CloseNotifier); ok {
		has |= notifiesClose
	}
	return has
}

type watcher interface {
	http.ResponseWriter
	self() *Writer
}

// shapes are the combinations, those first that are to be kept first.
var shapes = [...]struct {
	needs abilities
	make  func() watcher
}{
	{flushes | hijacks | reads | pushes | writesStrings | notifiesClose, func() watcher { return new(watchedFHRPSC) }},
	{flushes | hijacks | reads | writesStrings | notifiesClose, func() watcher { return new(watchedFHRSC) }},
	{flushes | hijacks | reads | notifiesClose, func() watcher { return new(watchedFHRC) }},
	{flushes | hijacks | reads | pushes | writesStrings, func() watcher { return new(watchedFHRPS) }},
	{flushes | hijacks | reads | pushes, func() watcher { return new(watchedFHRP) }},
	{flushes | hijacks | writesStrings | notifiesClose, func() watcher { return new(watchedFHSC) }},
	{flushes | hijacks | reads, func() watcher { return new(watchedFHR) }},
	{flushes | hijacks | writesStrings, func() watcher { return new(watchedFHS) }},
	{flushes | hijacks | pushes, func() watcher { return new(watchedFHP) }},
	{flushes | hijacks, func() watcher { return new(watchedFH) }},
	{flushes | pushes | writesStrings | notifiesClose, func() watcher { return new(watchedFPSC) }},
	{flushes | pushes | notifiesClose, func() watcher { return new(watchedFPC) }},
	{flushes | reads, func() watcher { return new(watchedFR) }},
	{hijacks | reads, func() watcher { return new(watchedHR) }},
	{flushes | notifiesClose, func() watcher { return new(watchedFC) }},
	{flushes | writesStrings, func() watcher { return new(watchedFS) }},
	{flushes | pushes, func() watcher { return new(watchedFP) }},
	{flushes, func() watcher { return new(watchedF) }},
	{hijacks, func() watcher { return new(watchedH) }},
	{reads, func() watcher { return new(watchedR) }},
	{notifiesClose, func() watcher { return new(watchedC) }},
	{writesStrings, func() watcher { return new(watchedS) }},
	{pushes, func() watcher { return new(watchedP) }},
	{0, func() watcher { return new(Writer) }},
}

// The letters of a shape are the interfaces that it has: Flusher, Hijacker, ReaderFrom,
// Pusher, StringWriter, CloseNotifier. Each embeds a smaller one and adds one method.
type (
	watchedF      struct{ Writer }
	watchedH      struct{ Writer }
	watchedR      struct{ Writer }
	watchedP      struct{ Writer }
	watchedS      struct{ Writer }
	watchedC      struct{ Writer }
	watchedFH     struct{ watchedF }
	watchedFR     struct{ watchedF }
	watchedHR     struct{ watchedH }
	watchedFP     struct{ watchedF }
	watchedFS     struct{ watchedF }
	watchedFC     struct{ watchedF }
	watchedFHR    struct{ watchedFH }
	watchedFHP    struct{ watchedFH }
	watchedFHS    struct{ watchedFH }
	watchedFHSC   struct{ watchedFHS }
	watchedFPC    struct{ watchedFP }
	watchedFPSC   struct{ watchedFPC }
	watchedFHRC   struct{ watchedFHR }
	watchedFHRSC  struct{ watchedFHRC }
	watchedFHRPS  struct{ watchedFHRP }
	watchedFHRP   struct{ watchedFHR }
	watchedFHRPSC struct{ watchedFHRPS }
)

func (w *watchedF) Flush() { _ = w.flush() }

// FlushError is what http.ResponseController asks for before Flush.
func (w *watchedF) FlushError() error { return w.flush() }

func (w *watchedH) Hijack() (net.Conn, *bufio.ReadWriter, error)     { return w.hijack() }
func (w *watchedR) ReadFrom(src io.Reader) (int64, error)            { return w.readFrom(src) }
func (w *watchedP) Push(target string, o *http.PushOptions) error    { return w.push(target, o) }
func (w *watchedS) WriteString(s string) (int, error)                { return w.writeString(s) }
func (w *watchedC) CloseNotify() <-chan bool                         { return w.closeNotify() }
func (w *watchedFH) Hijack() (net.Conn, *bufio.ReadWriter, error)    { return w.hijack() }
func (w *watchedFR) ReadFrom(src io.Reader) (int64, error)           { return w.readFrom(src) }
func (w *watchedHR) ReadFrom(src io.Reader) (int64, error)           { return w.readFrom(src) }
func (w *watchedFP) Push(target string, o *http.PushOptions) error   { return w.push(target, o) }
func (w *watchedFS) WriteString(s string) (int, error)               { return w.writeString(s) }
func (w *watchedFC) CloseNotify() <-chan bool                        { return w.closeNotify() }
func (w *watchedFHR) ReadFrom(src io.Reader) (int64, error)          { return w.readFrom(src) }
func (w *watchedFHP) Push(target string, o *http.PushOptions) error  { return w.push(target, o) }
func (w *watchedFHS) WriteString(s string) (int, error)              { return w.writeString(s) }
func (w *watchedFHSC) CloseNotify() <-chan bool                      { return w.closeNotify() }
func (w *watchedFPC) CloseNotify() <-chan bool                       { return w.closeNotify() }
func (w *watchedFPSC) WriteString(s string) (int, error)             { return w.writeString(s) }
func (w *watchedFHRC) CloseNotify() <-chan bool                      { return w.closeNotify() }
func (w *watchedFHRSC) WriteString(s string) (int, error)            { return w.writeString(s) }
func (w *watchedFHRPS) WriteString(s string) (int, error)            { return w.writeString(s) }
func (w *watchedFHRP) Push(target string, o *http.PushOptions) error { return w.push(target, o) }
func (w *watchedFHRPSC) CloseNotify() <-chan bool                    { return w.closeNotify() }
