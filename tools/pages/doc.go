// Package pages checks what people read: that the code on pages is code of examples, that links and
// figures of the defaults hold, and that the pages stay short.
package pages
