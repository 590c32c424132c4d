"""The console: pages for people, made on the server, below `/console/`. They need no script.

    app.py          finds the page of a request, and checks who asks before
    sections.py     what a part of the console brings: its routes, and its entry in the navigation
    requests.py     a request as pages see it
    answers.py      what a page returns
    forms.py        which forms are accepted
    sessions.py     people who have signed in
    signing.py      the pages on which they do
    rendering.py    templates
    authored.py     the section of tools that bots wrote

A new part of the console is a section in a file of its own, with templates that extend `base.html`.
"""
