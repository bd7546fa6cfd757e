package sender

// firstOf returns the first of some places in a payload that has something.
func firstOf(places ...string) string {
	out := "''"
	for i := len(places) - 1; i >= 0; i-- {
		out = "payload" + places[i] + ".orValue(" + out + ")"
	}
	return out
}

// ifObject returns an expression that evaluates to then if the payload has an object of
// that name, and to otherwise if not: senders omit fields, and some send null.
func ifObject(name, then, otherwise string) string {
	return "(has(payload." + name + ") && type(payload." + name + ") == map ? " + then + " : " + otherwise + ")"
}

// asText returns an expression whose result is always a text: empty if the given one
// returns another type.
func asText(expression string) string {
	return "[" + expression + "].map(x, type(x) == string ? x : '')[0]"
}

// whenList returns an expression that evaluates to then if the payload has a list of that
// name, and to otherwise if not.
func whenList(name, then, otherwise string) string {
	return "(has(payload." + name + ") && type(payload." + name + ") == list ? " + then + " : " + otherwise + ")"
}
