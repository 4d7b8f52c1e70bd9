// Tollbooth serves a page behind github.com/didip/tollbooth. Its rate is by the second: 5, in bursts of 10.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
)

func main() {
	limit := tollbooth.NewLimiter(5, &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour}).
		SetBurst(10).
		SetIPLookup(limiter.IPLookup{Name: "X-Forwarded-For", IndexFromRight: 0})
	page := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Hello.\n") }
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), tollbooth.LimitFuncHandler(limit, page)))
}
