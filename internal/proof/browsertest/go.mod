module github.com/weir-go/weir/internal/proof/browsertest

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/weir-go/weir v0.0.0
	github.com/weir-go/weir/cmd/weir v0.0.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
)

replace github.com/weir-go/weir => ../../..

replace github.com/weir-go/weir/cmd/weir => ../../../cmd/weir
