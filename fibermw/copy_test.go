package fibermw_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// keeping is a backend that keeps the keys it gets, as they are. It gets no text of values.
type keeping struct {
	*memory.Memory
	keep func(scope, text string)
}

func (k *keeping) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	for _, c := range charges {
		k.keep(c.Scope, c.Key)
	}
	return k.Memory.Take(ctx, charges, out)
}

func (k *keeping) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	for _, e := range endings {
		k.keep(e.Scope+" end", e.Key)
	}
	return k.Memory.Settle(ctx, endings, out)
}

// kept has texts by where they come from, in the order of the requests.
type kept struct {
	mu    sync.Mutex
	texts map[string][]string
}

func (k *kept) keep(scope, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.texts[scope] = append(k.texts[scope], text)
}

// read reads all texts, byte by byte, so that the race detector sees it.
func (k *kept) read() (sum int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, texts := range k.texts {
		for _, text := range texts {
			for i := range len(text) {
				sum += int(text[i])
			}
		}
	}
	return sum
}

// fasthttp reads all requests of a connection into the same memory.
func TestNothingOfARequestIsKept(t *testing.T) {
	const requests = 50
	k := &kept{texts: make(map[string][]string)}
	rules := []fibermw.Rule{
		{Name: "raw", Key: func(c fiber.Ctx) (string, error) { return c.Get("X-User"), nil }},
		{Name: "param", Key: func(c fiber.Ctx) (string, error) { return c.Params("id"), nil }},
		{Name: "path", Key: func(c fiber.Ctx) (string, error) { return c.Path(), nil }},
		{Name: "PathParam", Key: fibermw.PathParam("id")},
		{Name: "Header", Key: fibermw.Header("X-User")},
		{Name: "ContextValue", Key: fibermw.ContextValue("user")},
		{Name: "First", Key: keyfuncs.First(fibermw.Header("X-None"), fibermw.Header("X-User"))},
		{Name: "lifted header", Key: fibermw.Lift(keyfuncs.Header("X-User"))},
		{Name: "lifted path", Key: fibermw.Lift(func(r *http.Request) (string, error) {
			k.keep("lifted path kept", r.RequestURI) // a lifted function may keep its request
			return r.URL.Path, nil
		})},
		{Name: "lifted host", Key: fibermw.Lift(keyfuncs.Host)},
		{Name: "lifted body", Key: fibermw.Lift(func(r *http.Request) (string, error) {
			return r.PostFormValue("user"), nil
		})},
		{Name: "distinct", Key: keyfuncs.Constant[fiber.Ctx]("all"),
			Value: func(c fiber.Ctx) (string, error) { return c.Get("X-User"), nil }},
	}
	for i := range rules {
		rules[i].Limit = limits.FixedWindow(limits.PerDay(1000))
		if rules[i].Value != nil {
			rules[i].Limit = limits.Distinct(limits.PerDay(1000))
		} else {
			rules[i].Cost = func(fiber.Ctx) int64 { return 2 }
			rules[i].FinalCost = func(core.Result) int64 { return 1 }
		}
	}
	var ended sync.WaitGroup
	limiter := fibermw.MustNew(fibermw.Config{
		Rules:            rules,
		Backend:          &keeping{memory.MustNew(memory.Options{}), k.keep},
		OutcomeInContext: true,
		Observer: core.ObserverFuncs[fiber.Ctx]{
			OnDecision: func(_ context.Context, _ fiber.Ctx, o core.Outcome) {
				for i := range o.Len() {
					k.keep(o.At(i).Rule()+" observed", o.At(i).Key)
				}
			},
			OnEnd: func(limits.Settlement) { ended.Done() },
		},
	})
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		c.Locals("user", c.Get("X-User")) // memory of the request
		return c.Next()
	})
	app.Post("/users/:id", limiter.Middleware(), func(c fiber.Ctx) error { return c.SendString("hi") })
	app.Handler()

	ended.Add(requests * (len(rules) - 1))
	ours, theirs := net.Pipe()
	served := make(chan error)
	go func() { served <- app.Server().ServeConn(connection{theirs, addrOf("192.0.2.1:80")}) }()
	answers := bufio.NewReader(ours)
	var reading sync.WaitGroup
	for i := range requests {
		reading.Go(func() { k.read() }) // while the server reads the next request
		user := fmt.Sprintf("user-%04d", i)
		go fmt.Fprintf(ours, "POST /users/%s HTTP/1.1\r\nHost: %[1]s.example\r\nX-User: %[1]s\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 14\r\n\r\nuser=%[1]s", user)
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(response.Body); string(body) != "hi" {
			t.Fatalf("%s: %s", response.Status, body)
		}
	}
	ours.Close()
	<-served
	reading.Wait()
	ended.Wait()

	k.mu.Lock()
	defer k.mu.Unlock()
	for scope, texts := range k.texts {
		if strings.HasSuffix(scope, " end") {
			slices.Sort(texts) // another goroutine sends them
		}
		if len(texts) != requests {
			t.Errorf("%s: %d texts, want %d", scope, len(texts), requests)
			continue
		}
		for i, text := range texts {
			user := fmt.Sprintf("user-%04d", i)
			if strings.HasPrefix(scope, "distinct") {
				user = "all" // the key
			}
			if !strings.Contains(text, user) {
				t.Errorf("%s of request %d is now %q", scope, i, text)
				break
			}
		}
	}
	if want := 3 * len(rules); len(k.texts) != want { // charged, observed, ended; a target instead of one end
		t.Errorf("%d kinds of texts, want %d", len(k.texts), want)
	}
}
