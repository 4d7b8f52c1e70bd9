module github.com/weir-go/weir/conform

go 1.26.0

require github.com/weir-go/weir v0.0.0

require go.yaml.in/yaml/v4 v4.0.0 // indirect

replace github.com/weir-go/weir => ..
