package main

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// good counts the answers within the SLO.
var good atomic.Int64

// generate sends requests at random times, without waiting for answers. Of ten requests, two write,
// six read and two are in test mode.
func generate(perSecond int, url string) {
	client := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000},
	}
	mean := float64(time.Second) / float64(perSecond)
	for next := time.Now(); ; next = next.Add(time.Duration(rand.ExpFloat64() * mean)) {
		time.Sleep(time.Until(next))
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			log.Fatal(err)
		}
		switch n := rand.IntN(10); {
		case n < 2:
			r.Method = http.MethodPost
		case n < 4:
			r.Header.Set("X-Mode", "test")
		}
		go send(client, r, next)
	}
}

// send counts an answer as good if it comes soon enough after the request was due.
func send(client *http.Client, r *http.Request, due time.Time) {
	response, err := client.Do(r)
	if err != nil {
		return // counts like a late answer
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body) // so that the connection is reused
	if response.StatusCode == http.StatusOK && time.Since(due) <= slo {
		good.Add(1)
	}
}

// report prints a line a second: the limit, and the counts of each class.
func report() {
	before, goodBefore := shedder.State(), int64(0)
	for range time.Tick(time.Second) {
		now, goodNow := shedder.State(), good.Load()
		fmt.Printf("limit %3d, in flight %3d, good %4d a second, shed",
			now.Limit, now.InFlight, goodNow-goodBefore)
		for i, class := range now.Classes {
			shed := class.Shed - before.Classes[i].Shed
			admitted := class.Admitted - before.Classes[i].Admitted
			fmt.Printf("  %s %d of %d", class.Name, shed, shed+admitted)
		}
		fmt.Println()
		before, goodBefore = now, goodNow
	}
}
