"""The report: one HTML file with charts, made of plain rows.

frames          the tables that it is made of, as Spark frames
facts           collects the facts of a report: Spark aggregates, and what is collected is bounded
group_frames, group_facts, overview_frames
                do so for the page of a group, and for the overview
model           the facts. From here on there is no Spark
page            renders the file: `render(facts)`
overview, overview_tables, group_page
                render the pages
conclusions     the sentence at the head of each page
charts/         charts of rebalances, of ownership and of values over time; what they share, and their axes
html_tables, formatting, style
                tables, the format of numbers, times and names, and the CSS
page_file       the file that the report is written to
"""
