package examples

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// More reads at once than the program can answer: some are shed, as a 503 that says so, and
// what is more important passes.
func TestShed(t *testing.T) {
	testrun.FullOnly(t, "a flood")
	url := start(t, "shed") + "/charges"
	send(t, "POST", url, "").want(t, http.StatusOK)

	transport := &http.Transport{MaxIdleConnsPerHost: 400}
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	ask := func(method, mode string) (status int, retry string) {
		r, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		r.Header.Set("X-Mode", mode)
		response, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		response.Body.Close()
		return response.StatusCode, response.Header.Get("Retry-After")
	}
	var shedReads, reads atomic.Int64
	over := make(chan struct{})
	var flood sync.WaitGroup
	for i := range 400 {
		flood.Go(func() {
			mode := ""
			if i%2 == 0 {
				mode = "test"
			}
			for {
				select {
				case <-over:
					return
				default:
				}
				reads.Add(1)
				switch status, retry := ask("GET", mode); {
				case status == http.StatusServiceUnavailable && strings.Contains("1234", retry) && retry != "":
					shedReads.Add(1)
				case status != http.StatusOK:
					t.Errorf("a read: %d, Retry-After %q", status, retry)
					return
				}
			}
		})
	}
	const writes = 40
	for shedReads.Load() < 100 && !t.Failed() { // until the flood is more than the limit
		ask("POST", "")
	}
	done := 0
	for range writes {
		if status, _ := ask("POST", ""); status == http.StatusOK {
			done++
		}
	}
	send(t, "GET", strings.TrimSuffix(url, "/charges")+"/healthz", "").want(t, http.StatusOK)
	close(over)
	flood.Wait()
	share := float64(shedReads.Load()) / float64(reads.Load())
	t.Logf("%d of %d writes passed; of %d reads %d were shed", done, writes, reads.Load(), shedReads.Load())
	if done < writes*9/10 || share < 0.1 {
		t.Errorf("%d of %d writes passed, want nine tenths; %.0f%% of the reads were shed, want a tenth",
			done, writes, 100*share)
	}
}
