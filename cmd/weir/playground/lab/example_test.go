package lab_test

import (
	"fmt"

	"github.com/weir-go/weir/cmd/weir/playground/lab"
)

func Example() {
	l, mistakes := lab.New(lab.Setup{Panels: []string{"token-bucket 5/10s"}})
	fmt.Println(len(mistakes), "mistakes")
	l.Send(6, 1)
	answer, _ := l.Answer(0, 0)
	fmt.Println(answer.Verdict, answer.Fields)
	l.Approach(0)
	l.Advance(1)
	answer, _ = l.Answer(0, 0)
	fmt.Println(answer.Proof)
	// Output:
	// 0 mistakes
	// denied [{RateLimit "token-bucket";r=0;t=2} {RateLimit-Policy "token-bucket";q=5;w=10} {Retry-After 2}]
	// One microsecond early: denied. In time: allowed.
}

func ExampleChoose() {
	choice := lab.Choose("sliding-window", "100/minute")
	fmt.Println(choice.Go)
	fmt.Println(choice.YAML)
	// Output:
	// limits.SlidingWindow(limits.PerMinute(100))
	// limit: sliding-window 100/1m
}
