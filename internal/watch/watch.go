// Package watch puts writers around those of net/http that note what is written. The
// limiters of nethttp learn the status and the length of an answer from them, and package
// shed the instant at which it becomes a stream, and for how long a handler waits for its client.
package watch

import (
	"bufio"
	"net"
	"net/http"
)

// Around returns w with a writer around it that notes what is written. The writer always has ReadFrom
// and WriteString, which copy by Write where w has neither. It has Flush, Hijack, Push or CloseNotify
// only if w does, since handlers choose by that what to do. Its other abilities are behind Unwrap.
//
// Each combination of these four adds 3 kB to every program. Around knows those of net/http (HTTP/1:
// all but Pusher; HTTP/2: all but Hijacker), of gin (all), and of httptest and the usual wrappers of
// middleware. For any other it takes the first one in shapes that w has wholly. That keeps Flusher and
// Hijacker, without which handlers fail. What it may lose may be refused at any time (Pusher), or has
// long been replaced by the context (CloseNotifier).
//
// listener, if it is not nil, is told of the first Flush and of a Hijack that succeeds, and of the time that
// writing takes.
func Around(w http.ResponseWriter, listener Listener) (http.ResponseWriter, *Writer) {
	has := abilitiesOf(w)
	for i := range shapes {
		if s := &shapes[i]; s.needs&^has == 0 {
			around := s.make()
			watched := around.self()
			watched.inner, watched.listener = w, listener
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
	pushes                              // http.Pusher
	notifiesClose                       // http.CloseNotifier
)

func abilitiesOf(w http.ResponseWriter) (has abilities) {
	if _, ok := w.(http.Flusher); ok {
		has |= flushes
	}
	if _, ok := w.(http.Hijacker); ok {
		has |= hijacks
	}
	if _, ok := w.(http.Pusher); ok {
		has |= pushes
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
	{flushes | hijacks | pushes | notifiesClose, func() watcher { return new(watchedFHPC) }},
	{flushes | hijacks | notifiesClose, func() watcher { return new(watchedFHC) }},
	{flushes | hijacks, func() watcher { return new(watchedFH) }},
	{flushes | pushes | notifiesClose, func() watcher { return new(watchedFPC) }},
	{flushes | notifiesClose, func() watcher { return new(watchedFC) }},
	{flushes, func() watcher { return new(watchedF) }},
	{hijacks, func() watcher { return new(watchedH) }},
	{0, func() watcher { return new(Writer) }},
}

// The letters of a shape are the interfaces that it has: Flusher, Hijacker, Pusher, CloseNotifier.
// Each embeds a smaller one and adds one method.
type (
	watchedF    struct{ Writer }
	watchedH    struct{ Writer }
	watchedFH   struct{ watchedF }
	watchedFC   struct{ watchedF }
	watchedFPC  struct{ watchedFC }
	watchedFHC  struct{ watchedFC }
	watchedFHPC struct{ watchedFHC }
)

func (w *watchedF) Flush() { _ = w.flush() }

// FlushError is what http.ResponseController asks for before Flush.
func (w *watchedF) FlushError() error { return w.flush() }

func (w *watchedH) Hijack() (net.Conn, *bufio.ReadWriter, error)     { return w.hijack() }
func (w *watchedFH) Hijack() (net.Conn, *bufio.ReadWriter, error)    { return w.hijack() }
func (w *watchedFC) CloseNotify() <-chan bool                        { return w.closeNotify() }
func (w *watchedFPC) Push(target string, o *http.PushOptions) error  { return w.push(target, o) }
func (w *watchedFHC) Hijack() (net.Conn, *bufio.ReadWriter, error)   { return w.hijack() }
func (w *watchedFHPC) Push(target string, o *http.PushOptions) error { return w.push(target, o) }
