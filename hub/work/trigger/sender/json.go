package sender

var anyJSON = Sender{
	Name: "json", Label: "Anything that sends JSON, with a token", How: "as `token`",
	As:   "token",
	Goal: "A webhook has come in. Act on it as your instructions say.\n\n{{ payload }}",
	Example: Example{
		Body:   `{"a":{"b":1}}`,
		Prompt: []string{"{\"a\":{\"b\":1}}"},
	},
}
