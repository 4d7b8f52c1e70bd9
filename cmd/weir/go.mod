module github.com/weir-go/weir/cmd/weir

go 1.26.0

require (
	github.com/google/go-cmp v0.5.5
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/weir-go/weir v0.0.0
	go.yaml.in/yaml/v4 v4.0.0
)

require github.com/inconshreveable/mousetrap v1.1.0 // indirect

replace github.com/weir-go/weir => ../..
