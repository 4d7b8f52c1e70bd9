package examples

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

func TestUploads(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testUploads(t, start(t, "uploads")) })
	t.Run("redis", func(t *testing.T) {
		addr := freeAddr(t)
		startRedisServer(t, addr)
		testUploads(t, start(t, "uploads", "REDIS_URL=redis://"+addr))
	})
}

func testUploads(t *testing.T, url string) {
	t.Run("two at once", func(t *testing.T) {
		upload := func(ctx context.Context, ms int, key string) answer {
			r, err := http.NewRequestWithContext(ctx, "POST", fmt.Sprint(url, "/upload?ms=", ms), nil)
			if err != nil {
				t.Error(err)
			}
			r.Header.Set("X-API-Key", key)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return answer{} // it has left
			}
			response.Body.Close()
			return answer{Response: response}
		}
		ctx, leave := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() {
				for upload(ctx, 60_000, "ann").Response != nil { // denied while the third holds a unit
				}
			})
		}
		third := upload(t.Context(), 1, "ann")
		for third.StatusCode == http.StatusOK { // until both run
			third = upload(t.Context(), 1, "ann")
		}
		third.want(t, http.StatusTooManyRequests).field(t, "Retry-After", "1")
		third.field(t, "Ratelimit-Policy", `"uploads";q=2;qu="concurrent-requests"`)
		upload(t.Context(), 1, "bob").want(t, http.StatusOK)
		leave()
		running.Wait()
		for upload(t.Context(), 0, "ann").StatusCode != http.StatusOK { // until the server has noticed
		}
		for i := range 20 { // one after the other is never too many
			if a := upload(t.Context(), 0, "bob"); a.StatusCode != http.StatusOK {
				t.Fatalf("upload %d of one after the other: %s", i, a.Status)
			}
		}
	})
	t.Run("failures", func(t *testing.T) {
		for range 10 {
			logIn(t, url, "ann", "right").want(t, http.StatusOK)
		}
		for range 3 {
			logIn(t, url, "ann", "guess").want(t, http.StatusUnauthorized)
		}
		logIn(t, url, "ann", "right").want(t, http.StatusTooManyRequests)
	})
	t.Run("tokens", func(t *testing.T) {
		chat := func(tokens int) answer {
			return send(t, "POST", fmt.Sprint(url, "/chat?tokens=", tokens), "", "X-API-Key", "ann")
		}
		chat(300).want(t, http.StatusOK).field(t, "Ratelimit", `"tokens";r=900;`)
		for deadline := time.Now().Add(time.Minute); ; { // Redis is told of the end after the answer
			left := 0
			_, err := fmt.Sscanf(chat(0).want(t, http.StatusOK).Header.Get("Ratelimit"), `"tokens";r=%d;`, &left)
			if err == nil && left >= 600 && left <= 700 {
				break
			}
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("after 300 tokens and an estimate of 100, %d are left, want 600 and what has refilled (%v)",
					left, err)
			}
		}
		chat(1500).want(t, http.StatusOK)
		for deadline := time.Now().Add(time.Minute); chat(0).StatusCode != http.StatusTooManyRequests; {
			if time.Now().After(deadline) {
				t.Fatal("after 1500 tokens of 1000, no request is denied")
			}
		}
	})
	t.Run("ban", func(t *testing.T) {
		for i := range 7 { // three were ann's
			logIn(t, url, fmt.Sprint("user", i), "guess").want(t, http.StatusUnauthorized)
		}
		logIn(t, url, "bob", "right").want(t, http.StatusTooManyRequests)
	})
}

func logIn(t *testing.T, url, user, password string) answer {
	t.Helper()
	return send(t, "POST", url+"/login", "user="+user+"&password="+password,
		"Content-Type", "application/x-www-form-urlencoded")
}

func TestAProgramThatIsStoppedLetsItsRequestsEnd(t *testing.T) {
	answers := make(chan error, 2)
	t.Run("until it is stopped", func(t *testing.T) {
		url := start(t, "uploads")
		for range cap(answers) {
			go func() { answers <- untilStored(url + "/upload?ms=2000") }()
		}
		for len(answers) < cap(answers) { // until both run
			if send(t, "POST", url+"/upload?ms=0", "").StatusCode == http.StatusTooManyRequests {
				break
			}
		}
	})
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// untilStored sends an upload, and again if it is denied.
func untilStored(url string) error {
	for {
		response, err := http.Post(url, "", nil)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			continue
		}
		if err != nil || string(text) != "Stored.\n" {
			return fmt.Errorf("an upload got %s %q (%v)", response.Status, text, err)
		}
		return nil
	}
}
