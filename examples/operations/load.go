package main

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// generate sends about forty requests a second to the API, forever. Four clients behave; one has a
// script that runs wild for ten of every twenty seconds; some clients do not wait for the end of a
// report. Every five seconds there are forty searches at once, more than the shedder admits.
func generate(api net.Addr) {
	_, port, err := net.SplitHostPort(api.String())
	if err != nil {
		log.Fatal(err)
	}
	load := &load{
		client: &http.Client{Timeout: 700 * time.Millisecond},
		url:    "http://127.0.0.1:" + port,
	}
	const second = 40 // requests
	for i := 0; ; i++ {
		time.Sleep(time.Second / second)
		if i%(5*second) == 0 {
			for n := range 40 {
				go load.send(nameOf(n%4), "/search")
			}
		}
		runsAway := i/(10*second)%2 == 1
		switch {
		case i%20 == 0:
			go load.send("reader", fmt.Sprintf("/reports?rows=%d", rand.IntN(100)))
		case i%3 == 0 || runsAway:
			go load.send("runaway", "/items")
		default:
			go load.send(nameOf(rand.IntN(4)), "/items")
		}
	}
}

func nameOf(n int) string { return fmt.Sprintf("client-%d", n) }

type load struct {
	client *http.Client
	url    string
}

// send sends a request as the client with an API key.
func (l *load) send(key, path string) {
	r, err := http.NewRequest(http.MethodGet, l.url+path, nil)
	if err != nil {
		log.Print(err)
		return
	}
	r.Header.Set("X-API-Key", key)
	response, err := l.client.Do(r)
	if err != nil {
		return // the client did not wait
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body) // so that the connection is reused
}
