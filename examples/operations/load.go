package main

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"time"
)

// generate sends some forty requests a second, for ever: of six clients who behave, of one
// with a script that has run away, and reports, of which some clients do not wait for the
// end. Every five seconds there are forty searches at once, more than the shedder lets in.
func generate(api string) {
	client := &http.Client{Timeout: 700 * time.Millisecond}
	ask := func(key, path string) {
		r, err := http.NewRequest("GET", api+path, nil)
		if err != nil {
			log.Print(err)
			return
		}
		r.Header.Set("X-API-Key", key)
		response, err := client.Do(r)
		if err != nil {
			return // it did not wait
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	for i := 0; ; i++ {
		time.Sleep(25 * time.Millisecond)
		if i%200 == 0 {
			for n := range 40 {
				go ask(fmt.Sprintf("client-%d", n), "/search")
			}
		}
		switch {
		case i%20 == 0:
			go ask("reader", fmt.Sprintf("/reports?rows=%d", rand.IntN(100)))
		case i%3 == 0 || i/400%2 == 1: // for ten seconds of twenty, it runs away
			go ask("runaway", "/items")
		default:
			go ask(fmt.Sprintf("client-%d", rand.IntN(6)), "/items")
		}
	}
}
