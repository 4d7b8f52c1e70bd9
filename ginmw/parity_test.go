package ginmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
)

func init() { gin.SetMode(gin.ReleaseMode) }

func TestParity(t *testing.T) {
	parity.Run(t, parity.Adapter[*gin.Context]{
		Serve: serve,
		New: func(rules []ginmw.Rule) (parity.Limiter[*gin.Context], error) {
			return ginmw.New(ginmw.Config{Rules: rules})
		},
		Panics: map[string]func(){
			"MustNew": func() { ginmw.MustNew(ginmw.Config{}) },
			"nil":     func() { (*ginmw.Limiter)(nil).Handler() },
			"zero":    func() { new(ginmw.Limiter).Handler() },
		},
		Request:       func(c *gin.Context) *http.Request { return c.Request },
		Lift:          ginmw.Lift[string],
		LiftCondition: ginmw.LiftCondition,
		LiftLimit:     ginmw.Lift[limits.Limit],
		RoutePattern:  ginmw.RoutePattern,
		PathParam:     ginmw.PathParam,
		ErrorsTravel:  true,
		ContextValue:  ginmw.ContextValue,
	})
}

func serve(t *testing.T, app parity.App[*gin.Context]) http.Handler {
	limiter := func(c *parity.Config[*gin.Context]) gin.HandlersChain {
		if c == nil {
			return nil
		}
		config := ginmw.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, SkipPreflight: c.SkipPreflight, MaxWaiting: c.MaxWaiting,
			OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(c *gin.Context, o core.Outcome) { parity.Sorry(c.Writer, o) }
		}
		if c.PlainText {
			config.Denied = ginmw.PlainText
		}
		if c.Boom {
			config.Denied = func(*gin.Context, core.Outcome) { panic("boom") }
		}
		limit, err := ginmw.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if c.Made != nil {
			c.Made(limit)
		}
		return gin.HandlersChain{limit.Handler()}
	}
	hello := func(c *gin.Context) { parity.Hello(c.Writer) }
	user := func(c *gin.Context) { parity.User(c.Writer, c.Param("id")) }
	site, route := limiter(app.Site), limiter(app.Route)
	if app.Twice {
		route = site
	}
	behind := func(before gin.HandlersChain, handler gin.HandlerFunc) gin.HandlersChain {
		return append(before[:len(before):len(before)], handler)
	}

	r := gin.New()
	if app.Recover == parity.Outside {
		r.Use(gin.RecoveryWithWriter(io.Discard))
	}
	r.Use(answerErrors, func(c *gin.Context) {
		if user := c.GetHeader("X-User"); user != "" {
			c.Set("user", user)
		}
	})
	if app.Shed != nil {
		r.Use(ginmw.Shed(app.Shed))
	}
	r.Use(site...)
	if app.TimeOut == parity.Inside {
		r.Use(deadline)
	}
	if app.Recover == parity.Inside {
		r.Use(gin.RecoveryWithWriter(io.Discard))
	}
	r.NoRoute(func(c *gin.Context) { parity.NotFound(c.Writer) })
	r.HandleMethodNotAllowed = true
	r.NoMethod(func(c *gin.Context) {
		parity.NotAllowed(c.Writer)
		c.Writer.WriteHeaderNow() // or gin adds a text of its own
	})
	r.GET("/hello", hello)
	r.OPTIONS("/hello", hello)
	r.GET("/left", behind(route, func(c *gin.Context) {
		o, ok := ginmw.OutcomeFrom(c)
		parity.Left(c.Writer, o, ok)
	})...)
	r.GET("/conflict", func(c *gin.Context) { c.Error(parity.ErrConflict) })
	r.GET("/breaks", func(c *gin.Context) { c.Error(parity.ErrBroken) })
	r.GET("/users/:id", behind(route, user)...)
	r.POST("/login", behind(route, hello)...)
	api := r.Group("/api", limiter(app.Group)...)
	api.GET("/items/:id", user)
	api.GET("/both/:id", behind(route, user)...)
	for path, handler := range app.Extra {
		r.GET(path, behind(route, gin.WrapH(handler))...)
	}
	if app.TimeOut == parity.Outside {
		return http.TimeoutHandler(r, parity.TimeOut, "")
	}
	return r
}

// deadline is middleware that bounds the time of a request. gin has none.
func deadline(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), parity.TimeOut)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// answerErrors is middleware that answers the errors of handlers.
func answerErrors(c *gin.Context) {
	if c.Next(); len(c.Errors) == 0 || c.Writer.Written() {
		return
	}
	if errors.Is(c.Errors.Last(), parity.ErrConflict) {
		c.Status(parity.ErrConflict.StatusCode())
		return
	}
	c.Status(http.StatusInternalServerError)
}
