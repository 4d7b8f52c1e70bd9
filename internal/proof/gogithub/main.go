// Gogithub is the program of docs/outgoing.md that calls GitHub by go-github. It is a separate
// module, so that no other module requires go-github.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/google/go-github/v88/github"
	weirclient "github.com/weir-go/weir/client"
)

func main() {
	client, err := newClient(http.DefaultTransport, os.Getenv("GITHUB_TOKEN"))
	if err != nil {
		log.Fatal(err)
	}
	issues, _, err := client.Issues.ListByRepo(context.Background(), "golang", "go", nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, issue := range issues {
		fmt.Println(issue.GetTitle())
	}
}

// newClient returns a client of GitHub whose calls wait until they are not denied.
func newClient(base http.RoundTripper, token string) (*github.Client, error) {
	return github.NewClient(
		github.WithTransport(weirclient.MustNew(weirclient.Options{
			Base: base, Dialect: weirclient.GitHub, MaxWait: 10 * time.Minute, Observe: show,
		})),
		github.WithAuthToken(token),
		github.WithDisableRateLimitCheck(), // go-github would fail where weir waits
	)
}

// show says whether calls wait.
func show(e weirclient.Event) {
	switch e.Kind {
	case weirclient.Limited, weirclient.Paused:
		log.Printf("paused for %v", e.Wait.Round(time.Second))
	case weirclient.Resumed:
		log.Print("running")
	}
}
