// Client crawls a server as fast as the server allows, and never sees a 429. The client reads the
// RateLimit fields of each answer and holds requests back.
//
// To try it, with a server that allows 10 requests a minute (some lines of its log):
//
//	$ go run ./examples/quickstart
//	$ PAGES=9 go run ./examples/client
//	... held back for 4...s (RateLimit)
//	... 9 pages, 0 denied, in 4...s
//
// $URL is the address to fetch, $PAGES the number of times, and $MAX_WAIT the longest wait of a
// request.
package main

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/weir-go/weir/client"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	url := cmp.Or(os.Getenv("URL"), "http://localhost:8080/")
	pages, err := strconv.Atoi(cmp.Or(os.Getenv("PAGES"), "20"))
	if err != nil {
		return fmt.Errorf("PAGES: %w", err)
	}
	maxWait, err := time.ParseDuration(cmp.Or(os.Getenv("MAX_WAIT"), "5m"))
	if err != nil {
		return fmt.Errorf("MAX_WAIT: %w", err)
	}

	crawler := newCrawler(maxWait)
	begun := time.Now()
	fetched, err := crawler.crawl(url, pages)
	took := time.Since(begun).Round(time.Millisecond)
	log.Printf("%d pages, %d denied, in %v", fetched, crawler.denied, took)
	return err
}

// crawler fetches one page after the other.
type crawler struct {
	http   *http.Client
	denied int
}

func newCrawler(maxWait time.Duration) *crawler {
	c := new(crawler)
	c.http = &http.Client{Transport: client.MustNew(client.Options{
		MaxWait: maxWait,
		Observe: c.observe,
	})}
	return c
}

// observe counts denials and logs waits of the transport.
func (c *crawler) observe(event client.Event) {
	switch event.Kind {
	case client.Limited:
		c.denied++
	case client.Held:
		log.Printf("held back for %v (%s)", event.Wait.Round(time.Millisecond), event.Source)
	}
}

// crawl fetches url the given number of times. It returns how often it succeeded.
func (c *crawler) crawl(url string, pages int) (fetched int, err error) {
	for fetched < pages {
		if err := c.fetch(url); err != nil {
			return fetched, err
		}
		fetched++
	}
	return fetched, nil
}

// fetch reads a page. Its error is a *client.WaitError if the transport would have to wait too
// long.
func (c *crawler) fetch(url string) error {
	response, err := c.http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
