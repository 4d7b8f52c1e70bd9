package fibermw_test

import (
	"bufio"
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// A download counts as one of two at once while it is prepared, not while a slow client
// reads it.
func ExampleDetach() {
	limiter := fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
		Name: "downloads", Limit: limits.Concurrent(2), Key: keyfuncs.Address(fibermw.Peer),
	}}})
	app := fiber.New()
	app.Get("/file", limiter.Middleware(), func(c fiber.Ctx) error {
		end, ok := fibermw.Detach(c)
		before := limiter.State().Held
		if ok {
			end(core.Result{Status: http.StatusOK})
		}
		after := limiter.State().Held
		return c.SendString(fmt.Sprint(before, after))
	})
	fmt.Println(ask(app, "GET", "/file").Body)
	// Output: 1 0
}

// A chat is charged 100 tokens, and at its end what the model has really used.
func ExampleSpend() {
	limiter := fibermw.MustNew(chats(func(s limits.Settlement) { fmt.Println(s.Rule, s.Taken, s.Final) }))
	app := fiber.New()
	app.Post("/chat", limiter.Middleware(), func(c fiber.Ctx) error {
		for _, tokens := range []int64{12, 30, 9} {
			fibermw.Spend(c, "tokens", tokens)
		}
		return c.SendStatus(http.StatusNoContent)
	})
	ask(app, "POST", "/chat")
	// Output: tokens 100 51
}

// The writer of a stream runs after the handler, when c is not valid any more. It keeps the context.
func ExampleSpend_stream() {
	ended := make(chan limits.Settlement, 1)
	limiter := fibermw.MustNew(chats(func(s limits.Settlement) { ended <- s }))
	app := fiber.New()
	app.Post("/chat", limiter.Middleware(), func(c fiber.Ctx) error {
		ctx := c.Context()
		return c.SendStreamWriter(func(w *bufio.Writer) {
			for _, tokens := range []int64{12, 30, 9} {
				fmt.Fprintln(w, "some words")
				w.Flush()
				nethttp.Spend(ctx, "tokens", tokens)
			}
		})
	})
	ask(app, "POST", "/chat")
	s := <-ended
	fmt.Println(s.Rule, s.Taken, s.Final)
	// Output: tokens 100 51
}

func chats(onEnd func(limits.Settlement)) fibermw.Config {
	return fibermw.Config{
		Rules: []fibermw.Rule{{
			Name:      "tokens",
			Limit:     limits.SlidingWindow(limits.PerMinute(1000)),
			Key:       keyfuncs.Address(fibermw.Peer),
			Cost:      func(fiber.Ctx) int64 { return 100 },
			FinalCost: core.SpentCost,
		}},
		Observer: core.ObserverFuncs[fiber.Ctx]{OnEnd: onEnd},
	}
}
