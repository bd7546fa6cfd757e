package browser

import (
	"regexp"
	"strings"
	"unicode"
)

// tokens returns the words of a text, in small letters, with names such as orderDate taken
// apart.
func tokens(text string) []string {
	var b strings.Builder
	before, name := rune(0), false // name: the word began with a small letter
	for _, r := range possessive.ReplaceAllString(text, "$1") {
		if !unicode.IsLetter(before) {
			name = unicode.IsLower(r)
		}
		if name && unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		before = r
	}
	return wordsForm.FindAllString(strings.ToLower(b.String()), 200)
}

// possessive is the ending of "Ada's".
var possessive = regexp.MustCompile(`(\pL\pL)['’]s\b`)

// stem returns a word without its ending.
func stem(word string) string {
	for _, ending := range []string{"ing", "ies", "es", "ed", "s"} {
		if base, ok := strings.CutSuffix(word, ending); ok && len(base) >= 3 {
			if ending == "ies" {
				return base + "y"
			}
			return strings.TrimSuffix(base, "e")
		}
	}
	if len(word) > 3 {
		return strings.TrimSuffix(word, "e")
	}
	return word
}

func stems(text string) []string { return stemsOf(joined(tokens(text))) }

func stemsOf(all []string) []string {
	for i := range all {
		all[i] = stem(all[i])
	}
	return all
}

// similar says how alike two stems are, from 0 to 1.
func similar(a, b string) float64 {
	switch {
	case a == b:
		return 1
	case len(a) >= 4 && strings.HasPrefix(b, a), len(b) >= 4 && strings.HasPrefix(a, b):
		return 0.8
	case synonyms[a] != "" && synonyms[a] == synonyms[b]:
		return 0.7
	case len(a) >= 5 && len(b) >= 5 && distance(a, b) == 1:
		return 0.7
	}
	return 0
}

// synonyms are words that pages and people use for the same, as stems.
var synonyms = groups(
	"login signin logon", "logout signout logoff", "register signup join", "search find", "delete remove trash", "submit send", "cancel abort dismiss", "close x exit",
	"next continue forward proceed", "previous back", "user username account", "mail email", "password passwd pwd passphrase", "phone telephone mobile", "cart basket bag",
	"buy purchase order pay checkout", "setting preference option configuration", "edit modify change", "add create new plus", "save store apply", "ok okay confirm accept agree",
	"download export", "upload attach import", "postcode zip postal zipcode", "surname lastname", "quantity qty amount", "city town", "menu navigation hamburger",
	"color colour", "favorite favourite", "website web www url homepage", "display show view", "start launch begin",
	"max maximum", "min minimum", "cvc cvv",
)

// phrases are words that are written apart, or with a hyphen, and mean one thing.
var phrases = map[string]string{
	"log in": "login", "sign in": "signin", "log out": "logout", "sign out": "signout", "log off": "logoff", "sign up": "signup", "e mail": "email",
	"last name": "lastname", "family name": "lastname", "first name": "firstname", "given name": "firstname", "security code": "cvc", "user name": "username", "zip code": "zipcode", "postal code": "zipcode", "post code": "postcode",
	"text area": "textarea", "text box": "textbox", "text field": "textfield", "check box": "checkbox", "combo box": "combobox", "drop down": "dropdown",
	"spin button": "spinbutton", "tree item": "treeitem", "read only": "readonly",
	"shopping cart": "cart", "shopping basket": "cart", "shopping bag": "cart",
}

// joined returns words with each phrase as one word.
func joined(words []string) []string {
	var out []string
	for i := 0; i < len(words); i++ {
		if i+1 < len(words) {
			if one := phrases[words[i]+" "+words[i+1]]; one != "" {
				out = append(out, one)
				i++
				continue
			}
		}
		out = append(out, words[i])
	}
	return out
}

func groups(all ...string) map[string]string {
	out := map[string]string{}
	for _, group := range all {
		words := strings.Fields(group)
		for _, word := range words {
			out[stem(word)] = words[0]
		}
	}
	return out
}

// distance returns 1 if two words differ by one letter that is changed, missing or swapped
// with its neighbour, and 2 for all that differ more.
func distance(a, b string) int {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return 2
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case len(a) == len(b) && (i == len(a) || a[i+1:] == b[i+1:]), len(a) < len(b) && a[i:] == b[i+1:]:
		return 1
	case len(a) == len(b) && i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]:
		return 1
	}
	return 2
}
