package browserlink

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

const (
	// MaxTargets is how many targets are remembered for the runs of an agent for a user.
	MaxTargets = 500
	// MaxWords, MaxPage and MaxName bound the fields of one, in bytes.
	MaxWords, MaxPage, MaxName = 200, 160, 300
)

// Target is an element that was found by words before. The next time that the same words are
// used in a page of the same shape, it is the element with this role and accessible name.
// Nothing of it is an instruction, and the name is what a page says.
type Target struct {
	// Page is the host and the shape of the path; see PageOf.
	Page string `json:"page"`
	// Words are the target as the agent wrote it.
	Words string `json:"words"`
	Role  string `json:"role"`
	Name  string `json:"name"`
	// Nth is the element's place among those with its role and name, from 1, and Of is how many
	// the page had.
	Nth int `json:"nth,omitempty"`
	Of  int `json:"of,omitempty"`
}

// UsedTarget is what became of the target of a call.
type UsedTarget struct {
	Target
	// Hit reports that it was found as it was remembered, and Missed that what was remembered is
	// not in the page any more. With neither, it is to be remembered; a missed one is, too, if it
	// has a role.
	Hit    bool `json:"hit,omitempty"`
	Missed bool `json:"missed,omitempty"`
}

var roleForm = regexp.MustCompile(`^[a-z]{0,40}$`)

// check refuses what is no target: the keeper runs as the user of a browser that may have been
// taken over by a page.
func (u UsedTarget) check() error {
	switch {
	case u.Page == "" || len(u.Page) > MaxPage || strings.Contains(u.Page, " "):
		return errors.New("the page of a remembered target is none")
	case u.Words == "" || len(u.Words) > MaxWords || len(u.Name) > MaxName || !line(u.Page) || !line(u.Words) || !line(u.Name):
		return errors.New("the words of a remembered target are none")
	case !roleForm.MatchString(u.Role) || u.Role == "" && !u.Missed || u.Nth < 0 || u.Of < u.Nth || u.Of > 1000:
		return errors.New("the element of a remembered target is none")
	}
	return nil
}

func line(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }

var (
	segmentForm = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,40}$`)
	numberForm  = regexp.MustCompile(`^[0-9]+$|^[0-9a-fA-F-]{8,}$|[0-9].*[0-9].*[0-9].*[0-9]`)
)

// PageOf returns the host of an address with the shape of its path: parts that name one of many
// things, such as /orders/7, are a star. It is empty for what is no web page.
func PageOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	page := u.Host
	for part := range strings.SplitSeq(strings.Trim(u.Path, "/"), "/") {
		if !segmentForm.MatchString(part) && part != "" || numberForm.MatchString(part) {
			part = "*"
		}
		page += "/" + part
	}
	if len(page) > MaxPage || strings.ContainsAny(page, " ") || !line(page) {
		return ""
	}
	return page
}
