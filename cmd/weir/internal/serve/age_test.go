package serve

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnOldConnectionIsClosedAfterAWholeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{Config: Config{Logger: slog.New(slog.DiscardHandler)}}
		listener := make(pipes)
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "decided") })
		one := s.http(listener, handler, nil, time.Minute)
		go one.serve()
		dialled := 0
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, served := net.Pipe()
			listener <- served
			dialled++
			return client, nil
		}}
		client := &http.Client{Transport: transport}
		begun := time.Now()
		for range 100 { // 99 s apart in all
			response, err := client.Get("http://weir/")
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(response.Body); string(body) != "decided" || err != nil {
				t.Errorf("after %v: %q, %v", time.Since(begun), body, err)
			}
			response.Body.Close()
			if age := time.Since(begun); response.Close && (age < 54*time.Second || age > 67*time.Second) {
				t.Errorf("closed after %v", age)
			}
			time.Sleep(time.Second)
		}
		if dialled != 2 {
			t.Errorf("%d connections in 100 s, want 2", dialled)
		}
		transport.CloseIdleConnections()
		close(listener)
		one.end(t.Context())
	})
}
