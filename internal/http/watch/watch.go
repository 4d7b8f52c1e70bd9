// Package watch wraps http.ResponseWriter to record the status and the size of an answer. Package
// shed also learns when an answer becomes a stream, and for how long a handler waits for its
// client.
package watch

import (
	"bufio"
	"net"
	"net/http"
)

// Around wraps w in a [Writer], which records the answer. It calls listener, unless that is nil,
// about the first Flush, a successful Hijack, and the time that writing takes.
//
// Handlers assert Flusher, Hijacker, Pusher and CloseNotifier to find out what they can do. So the
// result implements those that w implements. Each combination adds 3 kB to every program. Around
// has six:
//
//	Flusher Hijacker CloseNotifier  net/http over HTTP/1, gin
//	Flusher Pusher CloseNotifier    net/http over HTTP/2
//	Flusher Hijacker                echo, middleware of chi, most middleware
//	Flusher Pusher                  middleware of chi over HTTP/2
//	Flusher                         httptest
//	none of them                    http.TimeoutHandler, middleware that has Unwrap alone
//
// For another w it takes the first combination that w implements completely. An assertion then
// fails for the rest of w, such as the Pusher of a Hijacker, or a Hijacker that is no Flusher. An
// [http.ResponseController] still finds every method of w.
func Around(w http.ResponseWriter, listener Listener) (http.ResponseWriter, *Writer) {
	around := shapeFor(w)
	watched := around.self()
	watched.inner, watched.listener = w, listener
	return around, watched
}

// OnStatus returns w with a [Writer] around it that calls f with the status, before the header is
// sent. It calls f once, and not if nothing is written or w is hijacked. If the source of a ReadFrom
// fails at once, it may call f again.
func OnStatus(w http.ResponseWriter, f func(status int)) http.ResponseWriter {
	around, watched := Around(w, nil)
	watched.onStatus = f
	return around
}

type (
	watcher interface {
		http.ResponseWriter
		self() *Writer
	}
	flushHijacker interface {
		http.Flusher
		http.Hijacker
	}
	flushPusher interface {
		http.Flusher
		http.Pusher
	}
	// http.CloseNotifier is deprecated, but gin asserts it
	closeNotifier interface{ CloseNotify() <-chan bool }
)

func shapeFor(w http.ResponseWriter) watcher {
	_, closes := w.(closeNotifier)
	switch w.(type) {
	case flushHijacker:
		if closes {
			return new(watchedFHC)
		}
		return new(watchedFH)
	case flushPusher:
		if closes {
			return new(watchedFPC)
		}
		return new(watchedFP)
	case http.Flusher:
		return new(watchedF)
	}
	return new(Writer)
}

// The letters in the name of a type are its interfaces. Each type embeds a smaller one and adds one
// method.
type (
	watchedF   struct{ Writer }
	watchedFH  struct{ watchedF }
	watchedFP  struct{ watchedF }
	watchedFHC struct{ watchedFH }
	watchedFPC struct{ watchedFP }
)

func (w *watchedF) Flush()                                        { _ = w.FlushError() }
func (w *watchedFH) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }
func (w *watchedFHC) CloseNotify() <-chan bool {
	return w.inner.(closeNotifier).CloseNotify()
}
func (w *watchedFPC) CloseNotify() <-chan bool {
	return w.inner.(closeNotifier).CloseNotify()
}
func (w *watchedFP) Push(target string, options *http.PushOptions) error {
	return w.inner.(http.Pusher).Push(target, options)
}
