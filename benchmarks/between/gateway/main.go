// Gateway asks services the requests of a table at their /json, and compares the answers with those
// of the table. envoy-gateway.sh beside it starts the services. Arguments are the table, and NAME=URL
// for each service. With -record it prints the table with the answers of the first service.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	record := flag.Bool("record", false, "print the table with the answers of the first service")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage: gateway [-record] TABLE NAME=URL...")
	}
	table, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	differ := false
	asked := ""
	for line := range strings.Lines(string(table)) {
		line = strings.TrimSpace(line)
		switch answer, isAnswer := strings.CutPrefix(line, "= "); {
		case line == "" || strings.HasPrefix(line, "#"):
			if *record {
				fmt.Println(line)
			}
		case !isAnswer:
			asked = line
			if *record {
				_, url, _ := strings.Cut(flag.Arg(1), "=")
				fmt.Printf("%s\n= %s\n", asked, ask(url, asked))
			}
		case !*record:
			for _, service := range flag.Args()[1:] {
				name, url, _ := strings.Cut(service, "=")
				if got := ask(url, asked); got != answer {
					differ = true
					fmt.Printf("%s\n  table: %s\n  %s: %s\n", asked, answer, name, got)
				}
			}
		}
	}
	if differ {
		os.Exit(1)
	}
}

// ask returns the status and the answer without the times until resets.
func ask(url, request string) string {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Post(url, "application/json", strings.NewReader(request))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Sprintf("%d %q", response.StatusCode, bytes.TrimSpace(body))
	}
	if statuses, ok := answer["statuses"].([]any); ok {
		for _, status := range statuses {
			delete(status.(map[string]any), "durationUntilReset")
		}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		log.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, text)
}
