// Client crawls a server, such as examples/quickstart, as fast as the server allows, and never
// sees a 429:
//
//	go run ./examples/quickstart &
//	go run ./examples/client
//
// $URL is what it fetches, $PAGES how often, $MAX_WAIT how long one request may be held back.
package main

import (
	"cmp"
	"errors"
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
	url := cmp.Or(os.Getenv("URL"), "http://localhost:8080/")
	pages, err := strconv.Atoi(cmp.Or(os.Getenv("PAGES"), "20"))
	if err != nil {
		log.Fatal("PAGES: ", err)
	}
	maxWait, err := time.ParseDuration(cmp.Or(os.Getenv("MAX_WAIT"), "5m"))
	if err != nil {
		log.Fatal("MAX_WAIT: ", err)
	}
	if err := crawl(url, pages, maxWait); err != nil {
		log.Fatal(err)
	}
}

// crawl fetches url a number of times, and logs what came of it.
func crawl(url string, pages int, maxWait time.Duration) error {
	denied := 0
	httpClient := &http.Client{Transport: client.New(client.Options{
		MaxWait: maxWait,
		Observe: func(e client.Event) {
			switch e.Kind {
			case client.Limited:
				denied++
			case client.Held:
				log.Printf("held back for %v (%s)", e.Wait.Round(time.Millisecond), e.Source)
			}
		},
	})}
	began := time.Now()
	for page := range pages {
		if err := fetch(httpClient, url); err != nil {
			var wait *client.WaitError
			if errors.As(err, &wait) {
				log.Printf("%d pages, %d denied, in %v", page, denied, time.Since(began).Round(time.Millisecond))
			}
			return err
		}
	}
	log.Printf("%d pages, %d denied, in %v", pages, denied, time.Since(began).Round(time.Millisecond))
	return nil
}

func fetch(httpClient *http.Client, url string) error {
	response, err := httpClient.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
