package fibermw_test

import (
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/valyala/fasthttp"

	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// direct calls an app with the same request again and again, as fasthttp does without a connection.
type direct struct {
	handle fasthttp.RequestHandler
	ctx    fasthttp.RequestCtx
}

func directOf(middleware ...any) *direct {
	app := fiber.New()
	if len(middleware) > 0 {
		app.Use(middleware...)
	}
	app.Get("/", func(fiber.Ctx) error { return nil })
	d := &direct{handle: app.Handler()}
	var r fasthttp.Request
	r.SetRequestURI("/")
	r.Header.Set("Accept", "*/*")
	d.ctx.Init(&r, &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 4711}, nil)
	return d
}

func (d *direct) ServeHTTP(http.ResponseWriter, *http.Request) {
	d.ctx.Response.Reset()
	d.handle(&d.ctx)
}

func perClientOf(limit limits.Limit, key func(fiber.Ctx) (string, error)) fiber.Handler {
	return fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
		Name: "per-client", Limit: limit, Key: key,
	}}}).Middleware()
}

func serveNothing(limit limits.Limit) http.Handler {
	if limit == (limits.Limit{}) {
		return directOf()
	}
	return directOf(perClientOf(limit, keyfuncs.Address(fibermw.Peer)))
}

// The key is formatted and copied.
func TestTheAdapterCostsTwoAllocationsMoreThanThatOfNetHTTP(t *testing.T) {
	parity.Cost(t, 2, serveNothing)
}

func Benchmark(b *testing.B) { parity.Benchmark(b, serveNothing) }

// BenchmarkBesideFibersOwn measures this package and the limiter of Fiber in turns. The metrics are
// ns for a request of each, with what Fiber takes without a limiter.
func BenchmarkBesideFibersOwn(b *testing.B) {
	const block = 500
	ample := limits.SlidingWindow(limits.PerMinute(1_000_000_000))
	own := func(most int, algorithm limiter.Handler) *direct {
		return directOf(limiter.New(limiter.Config{
			Max: most, Expiration: time.Minute, LimiterMiddleware: algorithm,
		}))
	}
	weir := func(limit limits.Limit, key func(fiber.Ctx) (string, error)) *direct {
		return directOf(perClientOf(limit, key))
	}
	scarce := limits.SlidingWindow(limits.PerMinute(1))
	contestants := []struct {
		name  string
		serve *direct
		ns    []float64
	}{
		{name: "bare-ns", serve: directOf()},
		{name: "fixed-own-ns", serve: own(1e9, limiter.FixedWindow{})},
		{name: "sliding-own-ns", serve: own(1e9, limiter.SlidingWindow{})},
		{name: "weir-ns", serve: weir(ample, keyfuncs.Address(fibermw.Peer))},
		{name: "weir-lifted-ns", serve: weir(ample, fibermw.Lift(keyfuncs.Address(keyfuncs.Peer)))},
		{name: "denied-own-ns", serve: own(1, limiter.SlidingWindow{})},
		{name: "denied-weir-ns", serve: weir(scarce, keyfuncs.Address(fibermw.Peer))},
	}
	for b.Loop() {
		for i := range contestants {
			c := &contestants[i]
			begun := time.Now()
			for range block {
				c.serve.ServeHTTP(nil, nil)
			}
			c.ns = append(c.ns, float64(time.Since(begun).Nanoseconds())/block)
		}
	}
	for _, c := range contestants {
		slices.Sort(c.ns)
		b.ReportMetric(c.ns[len(c.ns)/2], c.name)
	}
	b.ReportMetric(0, "ns/op")
}
