"""The report: one HTML file with pictures, made of plain rows.

frames          the tables that it is made of, as Spark has them
facts           from them to the facts: Spark adds up, what is collected is bounded
group_frames, group_facts, overview_frames
                the same for the page of a group, and for the overview
model           the facts. From here on there is no Spark
page            the file: `render(facts)`
overview, group_page
                what is on a page
rebalance_picture, ownership_picture, line_picture
                pictures; plots has what they share, scales their axes
elements        HTML that keeps text apart from markup
html_tables, words, style
                tables, how numbers, times and names are told, and how it looks
page_file       where it goes
"""
