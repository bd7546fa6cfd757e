package toolname

import "strings"

// IsBrowser reports whether a tool is one of the browser.
func IsBrowser(name string) bool { return strings.HasPrefix(name, "browser_") }
