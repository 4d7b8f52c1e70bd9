package gate

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
)

// Bridge is what calls middleware of net/http in another framework. It is the error of a next that
// a bridge has made: what an answer without a status means is then not known.
type Bridge struct {
	file    string // a part of the path of its source
	name    string // package and function
	adapter string // the package to use instead
	early   bool   // it calls the handlers when the middleware has returned
}

// Error implements error. No client sees the text.
func (b *Bridge) Error() string { return "gate: the answer went around " + b.name }

var bridges = []*Bridge{
	{"github.com/labstack/echo/v4", "echo.WrapMiddleware", "echomw", false},
	{"github.com/labstack/echo/v5", "echo.WrapMiddleware", "echo5mw", false},
	{"github.com/gofiber/fiber/v3", "adaptor.HTTPMiddleware", "fibermw", true},
}

// BridgeOf returns the bridge that has made next, or nil. Such a handler is a closure. Its name has
// that of the bridge, even if the compiler has inlined the bridge, and its file is the bridge's.
func BridgeOf(next http.Handler) *Bridge {
	handler, ok := next.(http.HandlerFunc)
	if !ok || handler == nil {
		return nil
	}
	f := runtime.FuncForPC(reflect.ValueOf(handler).Pointer())
	if f == nil {
		return nil
	}
	file, _ := f.FileLine(f.Entry())
	for _, b := range bridges {
		_, function, _ := strings.Cut(b.name, ".")
		if strings.Contains(f.Name(), "."+function+".") &&
			(strings.Contains(file, b.file+"/") || strings.Contains(file, b.file+"@")) {
			return b
		}
	}
	return nil
}

// bridged logs once that ends do not work through a bridge.
type bridged struct{ once sync.Once }

// note looks at the end of a request whose next returned err. written reports whether the limiter
// saw an answer.
func (n *bridged) note(err error, written bool, logger *slog.Logger) {
	b, ok := err.(*Bridge)
	if !ok || written && !b.early {
		return
	}
	n.once.Do(func() {
		effect := "answers that handlers do not write themselves are charged"
		if b.early {
			effect = "requests end before their handlers run, and are charged"
		}
		go func() { // no request waits for a logger
			defer func() { _ = recover() }() // a panic of the logger cannot be logged
			if logger == nil {
				logger = slog.Default()
			}
			logger.LogAttrs(context.Background(), slog.LevelWarn,
				"weir: a limiter of nethttp cannot see the ends of requests in "+b.name+": use "+b.adapter,
				slog.String("effect", effect))
		}()
	})
}
